-- Note a call's outcome. The same rules as `record` in carriers/breaker.py.
-- KEYS: state (hash), outcomes (list of 'time failed', oldest first).
-- ARGV: now ('' = Redis'), failed (0 or 1), window, horizon, min_calls, share,
-- the seconds that the call lasted.
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local kept = redis.call('HMGET', KEYS[1], 'mode', 'changed_at')
if (kept[1] or 'closed') ~= 'closed' or now - tonumber(ARGV[7]) < tonumber(kept[2] or '0') then
  return 0
end
redis.call('RPUSH', KEYS[2], string.format('%.6f', now) .. ' ' .. ARGV[2])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[3]), -1)
local oldest = now - tonumber(ARGV[4])
local count, failures, stale = 0, 0, 0
for _, entry in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  local at, failed = string.match(entry, '(%S+) (%d)')
  if tonumber(at) > oldest then
    count = count + 1
    failures = failures + tonumber(failed)
  else
    stale = stale + 1
  end
end
redis.call('LTRIM', KEYS[2], stale, -1)
if count >= tonumber(ARGV[5]) and failures >= tonumber(ARGV[6]) * count then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'mode', 'open', 'changed_at', string.format('%.6f', now))
end
return 1
