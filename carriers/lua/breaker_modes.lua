-- What state are these breakers in?
-- KEYS: states (hashes). Returns a mode for each; nil for one that has had no call.
local modes = {}
for each, key in ipairs(KEYS) do
  modes[each] = redis.call('HGET', key, 'mode')
end
return modes
