-- Take the announcement whose turn it is: the oldest of the account that has waited longest for one.
-- KEYS: the queue's accounts. ARGV: what the key of an account's announcements begins with.
-- Returns the announcement, or nil where none waits.
local account = redis.call('LPOP', KEYS[1])
while account do
  local key = ARGV[1] .. account
  local oldest = redis.call('ZPOPMIN', key)
  if oldest[1] then
    if redis.call('EXISTS', key) == 1 then
      redis.call('RPUSH', KEYS[1], account)
    end
    return oldest[1]
  end
  account = redis.call('LPOP', KEYS[1])
end
return nil
