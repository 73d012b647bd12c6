-- Take a slot, unless all are taken. One script, so that two callers never take the last one.
-- KEYS[1] sorted set: token → the end of its lease. ARGV: limit, lease (s), token, now ('' = Redis'),
-- then tokens that could not be given back before.
-- Returns 1 where the slot is taken, else 0.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
-- Slots of killed processes come back here.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for index = 5, #ARGV do
  redis.call('ZREM', KEYS[1], ARGV[index])
end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[2]) * 1000) + 1000)
return 1
