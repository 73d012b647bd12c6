-- May a call be made? The same rules as `admit` in carriers/breaker_rules.py; a test compares the two.
-- KEYS: state (hash), outcomes (list).
-- ARGV: now ('' = Redis'), token, open_for, ramp_for, ramp_from, ramp_to, trial_every.
-- Returns {allowed, retry_after, probe token}.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local kept = redis.call('HMGET', KEYS[1], 'mode', 'changed_at', 'ramping', 'admitted', 'gated_at',
  'gated_until')
local mode = kept[1] or 'closed'
local changed_at = tonumber(kept[2] or '0')
local gated_until = tonumber(kept[6] or '0')

if now < gated_until then
  return {0, string.format('%.6f', gated_until - now), ''}
end
if mode == 'closed' and kept[5] then
  redis.call('HSET', KEYS[1], 'gated_until', string.format('%.6f', now + tonumber(ARGV[7])))
  return {1, '0', ''}
end
if mode == 'closed' then
  local since = math.max(0, now - changed_at)
  local ramp_for, ramp_from = tonumber(ARGV[4]), tonumber(ARGV[5])
  if kept[3] ~= '1' then
    return {1, '0', ''}
  end
  if since >= ramp_for then
    redis.call('HSET', KEYS[1], 'ramping', '0', 'admitted', '0')
    return {1, '0', ''}
  end
  local slope = (tonumber(ARGV[6]) - ramp_from) / ramp_for
  local admitted = tonumber(kept[4] or '0')
  if admitted + 1 > 1 + ramp_from * since + slope * since * since / 2 then
    return {0, string.format('%.6f', 1 / (ramp_from + slope * since)), ''}
  end
  redis.call('HSET', KEYS[1], 'admitted', admitted + 1)
  return {1, '0', ''}
end

local till = changed_at + tonumber(ARGV[3])
if now < till then
  return {0, string.format('%.6f', till - now), ''}
end
redis.call('HSET', KEYS[1], 'mode', 'half_open', 'probe', ARGV[2],
  'changed_at', string.format('%.6f', now))
return {0, '0', ARGV[2]}
