-- Take a slot, unless all are taken or the owner has its share. One script, so that two callers
-- never take the last one.
-- KEYS[1] sorted set: token → the end of its lease. ARGV: limit, lease (s), token, now ('' = Redis'),
-- share (0 = no share), owner ('' = nobody's), then tokens that could not be given back before.
-- Returns 1 where the slot is taken, else 0.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
-- Slots of killed processes come back here.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for index = 7, #ARGV do
  redis.call('ZREM', KEYS[1], ARGV[index])
end
local taken = redis.call('ZCARD', KEYS[1])
local free = tonumber(ARGV[1]) - taken
if free <= 0 then
  return 0
end
local allowed, prefix = tonumber(ARGV[5]) * free, ARGV[6] .. '.'
-- Counted only where it can matter: while few slots are taken, nobody can have too many.
if prefix ~= '.' and allowed > 0 and taken >= allowed then
  local own = 0
  for _, token in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if string.sub(token, 1, #prefix) == prefix then own = own + 1 end
  end
  if own >= allowed then
    return 0
  end
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[2]) * 1000) + 1000)
return 1
