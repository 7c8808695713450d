-- Library: the holders of a shared or limited lock. The lock's key holds a marker, `dl1:s` or
-- `dl1:p:<limit>`. `members` is a sorted set of the holders' tokens by expiry (us). The marker and the set
-- live until the last of these expiries.

local function is_marker(value)
  return value == 'dl1:s' or string.sub(value, 1, 6) == 'dl1:p:'
end

-- The most holders of a lock of this kind; nil for shared locks.
local function limit_of(kind)
  return kind ~= 's' and tonumber(string.sub(kind, 3)) or nil
end

-- Whether the marker belongs to this set: then both expire at the same time. (While a slot is being moved,
-- its keys get their expiry again one after the other, so it may differ by milliseconds.) It does not if
-- managers with another key prefix have set it, whose set has another name; or if the set is left from an
-- earlier marker.
local function is_paired(lock, members)
  local left = redis.call('PTTL', members)
  return left >= 0 and math.abs(redis.call('PTTL', lock) - left) <= 1000
end

-- Drops the expired holders, and gives the marker and the set the expiry of the last holder. False if no
-- holder is left: then both are deleted.
local function drop_expired_members(lock, members, now)
  redis.call('ZREMRANGEBYSCORE', members, '-inf', text(now))
  local last = redis.call('ZREVRANGE', members, 0, 0, 'WITHSCORES')
  if not last[2] then
    redis.call('DEL', lock, members)
    return false
  end
  local at = text(math.ceil(tonumber(last[2]) / 1000))
  redis.call('PEXPIREAT', lock, at)
  redis.call('PEXPIREAT', members, at)
  return true
end

-- Adds a holder until `expiry`, or sets its expiry.
local function add_member(lock, members, token, expiry, now)
  redis.call('ZADD', members, text(expiry), token)
  drop_expired_members(lock, members, now)
end

-- Adds the first holder of a lock that was free. The set of an earlier marker must not come back to life with
-- the new one.
local function add_first_member(lock, members, marker, token, expiry, now)
  redis.call('DEL', members)
  redis.call('SET', lock, marker)
  add_member(lock, members, token, expiry, now)
end

