-- A carrier's slots, and the announcements of each owner that wait for one: functions of enter.lua
-- and leave.lua. `slots` and `slots:<owner>` are sorted sets, token → the end of its lease; the
-- waiting ones `slots:<owner>:waiting`, '<task>:<id>' → id: the oldest is next, however often it asks.
-- `bulkhead`: limit, lease (s), share (0 = no share), seconds for which a slot is kept.

local function own_slots(slots, token)
  return slots .. ':' .. string.match(token, '^%w*')
end

-- Return 1 if the slot was still the token's: its owner's set may name one that has run out, and that
-- another owner has taken since.
local function free(slots, token)
  redis.call('ZREM', own_slots(slots, token), token)
  return redis.call('ZREM', slots, token)
end

local function take(slots, token, bulkhead, now, seconds)
  for _, key in ipairs({slots, own_slots(slots, token)}) do
    redis.call('ZADD', key, now + seconds, token)
    redis.call('PEXPIRE', key, math.ceil(bulkhead[2] * 1000) + 1000)
  end
end

local function may_take(slots, owner, bulkhead, now)
  local own = own_slots(slots, owner)
  -- Slots of killed processes come back here, and those that were kept in vain.
  redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
  redis.call('ZREMRANGEBYSCORE', own, '-inf', now)
  local left = bulkhead[1] - redis.call('ZCARD', slots)
  local shared = bulkhead[3] > 0 and owner ~= ''
  return left > 0 and not (shared and redis.call('ZCARD', own) >= bulkhead[3] * left)
end

-- Keep what the owner may take for its oldest that wait; note them in `called`. Whoever else asks
-- meanwhile finds no slot. One that doesn't come, e.g. as it was cancelled, loses it.
local function call_next(slots, owner, bulkhead, now, called)
  local waiting = own_slots(slots, owner) .. ':waiting'
  while redis.call('EXISTS', waiting) == 1 and may_take(slots, owner, bulkhead, now) do
    local token = owner .. '.' .. redis.call('ZPOPMIN', waiting)[1]
    take(slots, token, bulkhead, now, bulkhead[4])
    called[#called + 1] = token
  end
end

-- Take a slot, unless all are taken, the owner has its share, or older ones wait for it: then 0.
-- `place`: '<task>:<id>', what to wake when it is this one's turn; '' = it doesn't wait for a slot.
local function acquire(slots, token, owner, place, bulkhead, now, called)
  local kept = owner .. '.' .. place
  if place ~= '' and free(slots, kept) == 0 then
    local waiting = own_slots(slots, owner) .. ':waiting'
    redis.call('ZADD', waiting, string.match(place, '%d+$'), place)
    redis.call('PEXPIRE', waiting, math.ceil(bulkhead[2] * 1000))
    call_next(slots, owner, bulkhead, now, called)
    if free(slots, kept) == 0 then return 0 end
  elseif place == '' and not may_take(slots, owner, bulkhead, now) then
    return 0
  end
  take(slots, token, bulkhead, now, bulkhead[2])
  return 1
end
