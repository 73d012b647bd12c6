-- Enter announcements among those of their account that wait for a worker.
-- KEYS: the queue's accounts (a list, each at most once), the account's announcements (a sorted set).
-- ARGV: account, announcements. One that waits already keeps its place: it is woken again now and then.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local time = redis.call('TIME')
for place = 2, #ARGV do
  redis.call('ZADD', KEYS[2], 'NX', time[1] + (time[2] + place) / 1000000, ARGV[place])
end
if not redis.call('LPOS', KEYS[1], ARGV[1]) then
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
return 1
