-- Take the announcements whose turn it is: of each account in turn its oldest. The bell is silent then.
-- KEYS: the queue's accounts, the queue's bell.
-- ARGV: what the key of an account's announcements begins with, how many at most.
redis.call('DEL', KEYS[2])
local found = {}
while #found < tonumber(ARGV[2]) do
  local account = redis.call('LPOP', KEYS[1])
  if not account then
    break
  end
  local key = ARGV[1] .. account
  local oldest = redis.call('ZPOPMIN', key)
  if oldest[1] then
    found[#found + 1] = oldest[1]
    if redis.call('EXISTS', key) == 1 then
      redis.call('RPUSH', KEYS[1], account)
    end
  end
end
return found
