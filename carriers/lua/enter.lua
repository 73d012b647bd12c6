-- Take a slot and ask the breaker, for each of some calls; what the breaker refuses keeps no slot.
-- `acquire` and `admit` are bulkhead_acquire.lua and breaker_admit.lua (carriers/guards.py).
-- KEYS: slots, the breaker's state, its outcomes. ARGV[1]: JSON, the two's ARGV for each call.
-- Returns for each what `admit` returns, or an empty list where there was no slot.
local answers = {}
for index, call in ipairs(cjson.decode(ARGV[1])) do
  answers[index] = {}
  if acquire({KEYS[1]}, call[1]) == 1 then
    answers[index] = admit({KEYS[2], KEYS[3]}, call[2])
    if answers[index][1] == 0 then
      redis.call('ZREM', KEYS[1], call[1][3])
    end
  end
end
return answers
