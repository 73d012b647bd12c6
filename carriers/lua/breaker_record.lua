-- Note a call's outcome. The same rules as `record` in carriers/breaker_rules.py.
-- KEYS: state (hash), outcomes (list of 'time failed key', oldest first).
-- ARGV: now ('' = Redis'), failed (0 or 1), window, horizon, min_calls, share,
-- the seconds that the call lasted, key ('' = none).
redis.replicate_commands() -- needed up to Redis 6, where TIME may not precede a write without it
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local at = string.format('%.6f', now)
local kept = redis.call('HMGET', KEYS[1], 'mode', 'changed_at', 'gated_at')
local begun = now - tonumber(ARGV[7])
if (kept[1] or 'closed') ~= 'closed' or begun < tonumber(kept[2] or '0') then
  return 0
end
if kept[3] and ARGV[2] == '0' and begun >= tonumber(kept[3]) then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'mode', 'closed', 'changed_at', at, 'ramping', '1', 'admitted', '0')
  return 1
end
local oldest = now - tonumber(ARGV[4])
local recent, repeated = {}, false
for _, entry in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  local then_, failed, key = string.match(entry, '(%S+) (%d) ?(.*)')
  if tonumber(then_) > oldest then
    recent[#recent + 1] = failed
    repeated = repeated or (failed == '1' and key ~= '' and key == ARGV[8])
  end
end
if not (repeated and ARGV[2] == '1') then
  recent[#recent + 1] = ARGV[2]
  redis.call('RPUSH', KEYS[2], at .. ' ' .. ARGV[2] .. ' ' .. ARGV[8])
end
if #recent > tonumber(ARGV[3]) then
  table.remove(recent, 1)
end
redis.call('LTRIM', KEYS[2], -#recent, -1)
local failures = 0
for _, failed in ipairs(recent) do
  failures = failures + tonumber(failed)
end
if #recent >= tonumber(ARGV[5]) and failures >= tonumber(ARGV[6]) * #recent then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'mode', 'open', 'changed_at', at, 'ramping', '0', 'admitted', '0')
end
return 1
