-- Take the announcements whose turn it is: of each account in turn its oldest.
-- KEYS: the queue's accounts, the queue's bell.
-- ARGV: what the key of an account's announcements begins with, how many at most, for how long (ms)
-- this worker is believed to listen: meanwhile no message is sent; 0: it has stopped. Nor does one
-- listen that gets as many as it wanted: more may wait, for other workers, too.
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
if ARGV[3] == '0' or #found == tonumber(ARGV[2]) then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[3])
end
return found
