-- Enter announcements among those of their account that wait for a worker.
-- KEYS: the queue's accounts (a list, each at most once), the account's announcements (a sorted set),
-- the queue's bell, the queue. ARGV: account, how long a bell is believed (ms, 0: not at all), 1: before
-- all that wait, with how many messages the queue is full, announcements. Else one that waits already
-- keeps its place: it is woken again now and then.
-- Returns 1 where a message is to be sent; 0 where one is on its way to a worker, which takes these, too.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local time = redis.call('TIME')
for place = 5, #ARGV do
  if ARGV[3] == '1' then
    redis.call('ZADD', KEYS[2], place, ARGV[place])
  else
    redis.call('ZADD', KEYS[2], 'NX', time[1] + (time[2] + place) / 1000000, ARGV[place])
  end
end
if not redis.call('LPOS', KEYS[1], ARGV[1]) then
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
if redis.call('LLEN', KEYS[4]) >= tonumber(ARGV[4]) then
  return 0
end
if ARGV[2] == '0' or redis.call('SET', KEYS[3], 1, 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0
