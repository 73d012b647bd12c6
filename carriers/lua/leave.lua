-- Give calls' slots back and note what they have shown: who takes a slot next knows it.
-- `record` and `throttle` are breaker_record.lua and breaker_throttle.lua (carriers/guards.py).
-- KEYS: slots, the breaker's state, its outcomes, the recent calls (list, newest first).
-- ARGV: how many recent calls are kept, for how long (s), and JSON: lists of the two's ARGV, of
-- recent calls' entries and of tokens.
redis.replicate_commands() -- see breaker_record.lua: before the first write
local ended = cjson.decode(ARGV[3])
-- First: a Redis that is full refuses what could need memory, unless the script has written before.
for _, token in ipairs(ended.slots) do
  redis.call('ZREM', KEYS[1], token)
end
for _, outcome in ipairs(ended.recorded) do
  record({KEYS[2], KEYS[3]}, outcome)
end
for _, asked in ipairs(ended.throttled) do -- last: a success beside a 429 must not open the gate
  throttle({KEYS[2], KEYS[3]}, asked)
end
for _, entry in ipairs(ended.recent) do
  redis.call('LPUSH', KEYS[4], entry)
  redis.call('LTRIM', KEYS[4], 0, ARGV[1] - 1)
  redis.call('EXPIRE', KEYS[4], ARGV[2])
end
return 1
