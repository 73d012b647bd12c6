-- Close the gate: the carrier has answered 429. The same rules as `throttle` in carriers/breaker_rules.py.
-- KEYS: state (hash), outcomes (list). ARGV: now ('' = Redis'), seconds asked for, trial_every.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local till = now + math.max(tonumber(ARGV[2]), tonumber(ARGV[3]))
till = math.max(till, tonumber(redis.call('HGET', KEYS[1], 'gated_until') or '0'))
redis.call('HSETNX', KEYS[1], 'gated_at', string.format('%.6f', now))
redis.call('HSET', KEYS[1], 'gated_until', string.format('%.6f', till))
return 1
