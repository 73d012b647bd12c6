-- Note a probe's result. The same rules as `record_probe` in carriers/breaker_rules.py.
-- KEYS: state (hash), outcomes (list). ARGV: now ('' = Redis'), token, alive (0 or 1).
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local kept = redis.call('HMGET', KEYS[1], 'mode', 'probe')
local closed = ARGV[3] == '1'
if kept[1] ~= 'half_open' or not (closed or kept[2] == ARGV[2]) then
  return 0
end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[1], 'mode', closed and 'closed' or 'open', 'probe', '',
  'changed_at', string.format('%.6f', now), 'ramping', closed and '1' or '0', 'admitted', '0')
return 1
