-- Shared part: the holders of a shared or limited lock. The lock's key holds a marker, `dl1:s` or
-- `dl1:p:<limit>`; `members` is a sorted set of their tokens by expiry (us). The marker and the set live as
-- long as the last of them. Takes, when called: lock, members, server_time.

local function is_marker(value)
  return value == 'dl1:s' or string.sub(value, 1, 6) == 'dl1:p:'
end

-- Whether the marker stands for this set: both end at the same time. (Keys of a slot that is being moved get
-- their times anew one after the other, so not to the millisecond.) It does not if managers that spell the key
-- with another prefix set it, whose set has another name; or if the set is left from an earlier marker.
local function is_paired()
  local left = redis.call('PTTL', members)
  return left >= 0 and math.abs(redis.call('PTTL', lock) - left) <= 1000
end

-- Drops the expired, and gives the marker and the set the expiry of the last. False if none is left: both are
-- gone.
local function drop_expired_members()
  redis.call('ZREMRANGEBYSCORE', members, '-inf', text(server_time))
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

-- Lets `who` in until `expiry`. The set of an earlier generation must not come back to life with the marker.
local function admit(marker, is_free, who, expiry)
  if is_free then
    redis.call('DEL', members)
    redis.call('SET', lock, marker)
  end
  redis.call('ZADD', members, text(expiry), who)
  drop_expired_members()
end
