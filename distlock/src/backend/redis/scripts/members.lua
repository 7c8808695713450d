-- Library: the holders of a shared or limited lock. The lock's key holds a marker, `dl1:s` or `dl1:p:<limit>`;
-- `members` is a sorted set of the holders' tokens by expiry (us). The marker and the set live as long as the
-- last of them.

local function is_marker(value)
  return value == 'dl1:s' or string.sub(value, 1, 6) == 'dl1:p:'
end

-- How many may hold a lock of this kind at once; nothing for shared locks.
local function limit_of(kind)
  return kind ~= 's' and tonumber(string.sub(kind, 3)) or nil
end

-- Whether the marker stands for this set: both end at the same time. (Keys of a slot that is being moved get
-- their times anew one after the other, so not to the millisecond.) It does not if managers that spell the key
-- with another prefix set it, whose set has another name; or if the set is left from an earlier marker.
local function is_paired(lock, members)
  local left = redis.call('PTTL', members)
  return left >= 0 and math.abs(redis.call('PTTL', lock) - left) <= 1000
end

-- Drops the expired, and gives the marker and the set the expiry of the last. False if none is left: both are
-- gone.
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

-- Adds a holder until `expiry`, or gives it that expiry.
local function add_member(lock, members, token, expiry, now)
  redis.call('ZADD', members, text(expiry), token)
  drop_expired_members(lock, members, now)
end

-- Adds the first holder of a lock that was free. The set of an earlier generation must not come back to life with
-- the marker.
local function add_first_member(lock, members, marker, token, expiry, now)
  redis.call('DEL', members)
  redis.call('SET', lock, marker)
  add_member(lock, members, token, expiry, now)
end

