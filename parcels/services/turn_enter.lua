-- Enter an announcement among those of its account that wait for a worker.
-- KEYS: the queue's accounts (a list, each at most once), the account's announcements (a sorted set).
-- ARGV: account, announcement. One that waits already keeps its place: it is woken again now and then.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], 'NX', time[1] + time[2] / 1000000, ARGV[2])
if not redis.call('LPOS', KEYS[1], ARGV[1]) then
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
return 1
