-- Reads a key for `inspect` and lists: of a lock also its holders and its waiters. Writes nothing. Texts and lists are
-- cut here, because other programs may have written them.
--
-- KEYS   key, or  lock  queue  members
-- ARGV   longest value  [longest token  most tokens]
-- Reply  nil if the key does not exist; {value, PTTL}, and for a lock also  length of the queue, {holder, expiry, ..},
--        {waiter, ..}, which are empty if the user may not read them or they have another type; or a WRONGTYPE error

local value = redis.call('GET', KEYS[1])
if not value then
  return false
end
local reply = {string.sub(value, 1, tonumber(ARGV[1])), redis.call('PTTL', KEYS[1])}
if KEYS[2] then
  local longest, last = tonumber(ARGV[2]), tonumber(ARGV[3]) - 1
  local function list(...)
    local found = redis.pcall(...)
    if found.err then
      return {}
    end
    for at, text in ipairs(found) do
      found[at] = string.sub(text, 1, longest)
    end
    return found
  end
  local length = redis.pcall('LLEN', KEYS[2])
  reply[3] = type(length) == 'number' and length or 0
  reply[4] = list('ZREVRANGE', KEYS[3], 0, last, 'WITHSCORES')
  reply[5] = list('LRANGE', KEYS[2], 0, last)
end
return reply
