-- Library: the holders of a shared or limited lock. The value of the lock's key is a marker, `dl1:s` or
-- `dl1:p:<limit>`. `members` is a sorted set of the holders' tokens by expiry (us). The marker expires with the last of
-- these leases, and the set half a second later. Redis deletes expired keys in any order. If it deleted the set first
-- and its clock were set back then, the marker would be alive without its set, like the marker of another program.

local function is_marker(value)
  return value == 'dl1:s' or string.sub(value, 1, 6) == 'dl1:p:'
end

-- The maximum number of holders of a lock of this kind; nil for shared locks.
local function limit_of(kind)
  return kind ~= 's' and tonumber(string.sub(kind, 3)) or nil
end

-- Returns whether the marker belongs to this set. It does not if managers with another key prefix have set the marker,
-- because their set has another name. Nor does it if the set belongs to an earlier marker. If it does belong to it:
-- * The set expires 500 ms after the marker, or with it if an earlier version wrote both. While a slot is moved, its
--   keys are created one after the other, so either may be late by up to a second.
-- * The last lease is not over, except for the rest of the millisecond in which the marker expires, or if the clock
--   was set back after it was read as `now`. In that case, the set expires 500 ms after the marker (499 ms, if a
--   millisecond ends between the two commands). The set of an earlier marker would expire sooner: if its last lease is
--   over, it has at most 500 ms left.
local function is_paired(lock, members, now)
  local ends, left = redis.call('PTTL', lock), redis.call('PTTL', members)
  local apart = left - ends
  if left < 0 or apart < -1000 or apart > 1500 then
    return false
  end
  local last = redis.call('ZREVRANGE', members, 0, 0, 'WITHSCORES')
  return last[2] ~= nil and (tonumber(last[2]) > now or ends <= 1 or apart >= 499)
end

-- Removes the expired holders, and sets the expiry of the marker and the set after the last holder, whose expiry it
-- returns. If no holder is left, deletes both and returns false.
local function drop_expired_members(lock, members, now)
  redis.call('ZREMRANGEBYSCORE', members, '-inf', text(now))
  local last = redis.call('ZREVRANGE', members, 0, 0, 'WITHSCORES')
  if not last[2] then
    redis.call('DEL', lock, members)
    return false
  end
  local at = math.ceil(tonumber(last[2]) / 1000)
  redis.call('PEXPIREAT', lock, text(at))
  redis.call('PEXPIREAT', members, text(at + 500))
  return tonumber(last[2])
end

-- Adds a holder with this expiry, or changes its expiry.
local function add_member(lock, members, token, expiry, now)
  redis.call('ZADD', members, text(expiry), token)
  drop_expired_members(lock, members, now)
end

-- Writes the marker, which expires with the last lease.
local function mark(lock, marker, ends)
  redis.call('SET', lock, marker, 'PXAT', text(math.ceil(ends / 1000)))
end

-- Makes the set of a free lock, with its first holder and without its marker. The set of an earlier marker must not
-- become valid with the new marker. Returns an error if the user lacks a permission, and then leaves no set: it might
-- never expire.
local function make_set(members, token, expiry)
  redis.call('DEL', members)
  local done = redis.pcall('ZADD', members, text(expiry), token)
  if type(done) == 'number' then
    done = redis.pcall('PEXPIREAT', members, text(math.ceil(expiry / 1000) + 500))
  end
  if type(done) == 'table' then
    redis.call('DEL', members)
    return done
  end
end

