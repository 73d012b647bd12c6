-- Take a slot and ask the breaker, for each of some calls; what the breaker refuses keeps no slot.
-- `acquire` and `free`: bulkhead.lua; `admit`: breaker_admit.lua (carriers/guards.py).
-- KEYS: slots, the breaker's state, its outcomes. ARGV: now ('' = Redis'), and JSON: `bulkhead`,
-- `owed`: tokens that could not be given back before, and `calls`: token, owner, place, admit's ARGV.
-- Returns for each call what `admit` returns, or an empty list where there was no slot; and whose
-- turn it is: slots are kept for these ('<owner>.<place>').
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local time, asked = redis.call('TIME'), cjson.decode(ARGV[2])
local now = tonumber(ARGV[1]) or time[1] + time[2] / 1000000
for _, token in ipairs(asked.owed) do
  free(KEYS[1], token)
end
local answers, called, kept = {}, {}, {}
for index, call in ipairs(asked.calls) do
  answers[index] = {}
  if acquire(KEYS[1], call[1], call[2], call[3], asked.bulkhead, now, called) == 1 then
    answers[index] = admit({KEYS[2], KEYS[3]}, call[4])
    if answers[index][1] == 0 then
      free(KEYS[1], call[1])
    end
  end
end
for _, token in ipairs(called) do
  if redis.call('ZSCORE', KEYS[1], token) then
    kept[#kept + 1] = token -- not one of these calls
  end
end
return {answers, kept}
