-- Sliding windows, several at once: a request counts in all of them or in none.
-- KEYS: one hash per window. ARGV: limit and seconds of each window, in turn, then what is charged
-- for a request that has passed before; 0 for one that asks to pass, which counts as one.
-- Returns 0 when the request may pass, else the milliseconds until it might.
--
-- A window is estimated from two counters: this one's, and the last one's by the share of it that
-- still lies within the past window. Two numbers instead of a thousand timestamps; off by a few
-- per cent where an account's requests come in bursts. Redis's clock is the only one.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local charge = tonumber(ARGV[#ARGV])
local longest = 0

for i, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[2 * i - 1])
  local length = tonumber(ARGV[2 * i]) * 1000
  local number = math.floor(now / length)
  local passed = now % length
  local stored = redis.call('HMGET', key, 'number', 'this', 'last')
  local this, last = tonumber(stored[2] or 0), tonumber(stored[3] or 0)
  local age = number - tonumber(stored[1] or number)
  if age == 1 then this, last = 0, this elseif age > 1 then this, last = 0, 0 end
  redis.call('HSET', key, 'number', number, 'this', this, 'last', last)
  redis.call('PEXPIRE', key, 2 * length)

  local room = limit - 1 - this
  if last * (1 - passed / length) > room then
    local wait
    if room >= 0 then
      wait = length * (1 - room / last) - passed
    else
      wait = length - passed + length * math.max(0, 1 - (limit - 1) / this)
    end
    longest = math.max(longest, math.ceil(wait), 1)
  end
end

if charge > 0 or longest == 0 then
  for _, key in ipairs(KEYS) do redis.call('HINCRBY', key, 'this', math.max(charge, 1)) end
end
return longest
