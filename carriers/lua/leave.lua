-- Give calls' slots back and note what they have shown: who takes a slot next knows it.
-- `free` and `call_next`: bulkhead.lua; `record` and `throttle`: breaker_record.lua and
-- breaker_throttle.lua (carriers/guards.py).
-- KEYS: slots, the breaker's state, its outcomes, the recent calls (list, newest first).
-- ARGV: now ('' = Redis'), how many recent calls are kept, for how long (s), and JSON: `bulkhead`,
-- and lists of tokens, of the two's ARGV and of recent calls' entries.
-- Returns whose turn it is: slots are kept for these ('<owner>.<place>').
redis.replicate_commands() -- see enter.lua
local time, ended, called = redis.call('TIME'), cjson.decode(ARGV[4]), {}
local now = tonumber(ARGV[1]) or time[1] + time[2] / 1000000
-- First: a Redis that is full refuses what could need memory, unless the script has written before.
for _, token in ipairs(ended.slots) do
  free(KEYS[1], token)
end
for _, outcome in ipairs(ended.recorded) do
  record({KEYS[2], KEYS[3]}, outcome)
end
for _, asked in ipairs(ended.throttled) do -- last: a success beside a 429 must not open the gate
  throttle({KEYS[2], KEYS[3]}, asked)
end
for _, entry in ipairs(ended.recent) do
  redis.call('LPUSH', KEYS[4], entry)
  redis.call('LTRIM', KEYS[4], 0, ARGV[2] - 1)
  redis.call('EXPIRE', KEYS[4], ARGV[3])
end
for _, token in ipairs(ended.slots) do
  call_next(KEYS[1], string.match(token, '^%w*'), ended.bulkhead, now, called)
end
return called
