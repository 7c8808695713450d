-- Library: acquires a shared or limited lock without queueing. (Behind clock.lua, queue.lua and members.lua.)
-- Both return one of: FRESH; MINE; WRONGTYPE; WRONGKIND, marker or holder; BUSY, a holder, ms until a lease may expire;
-- ERROR, error reply.

-- Acquires a lock without a holder. The marker comes last, and with its expiry: without its set, it would look like the
-- marker of another program.
local function join_free(lock, members, marker, token, expiry)
  local failed = make_set(members, token, expiry)
  if failed then
    return 'ERROR', failed
  end
  mark(lock, marker, expiry)
  return 'FRESH'
end

local function join(lock, queue, entries, members, token, ttl, kind, now)
  local marker, expiry = 'dl1:' .. kind, now + ttl * 1000
  local held = redis.pcall('GET', lock)
  if type(held) == 'table' then
    if string.find(held.err, 'WRONGTYPE', 1, true) then
      return 'WRONGTYPE'
    end
    return 'ERROR', held
  end
  if not held then
    return join_free(lock, members, marker, token, expiry)
  end
  if held ~= marker then
    -- A plain token may belong to a client in another language. Only a token of ours is known to be exclusive.
    local ours = string.sub(held, 1, 4) == 'dl1:' and held ~= 'dl1:hold'
    if is_marker(held) or (kind ~= 's' and ours) then
      return 'WRONGKIND', held
    end
    return 'BUSY', held, redis.call('PTTL', lock)
  end

  if not is_paired(lock, members, now) then
    return 'WRONGKIND', held
  end
  redis.call('ZREMRANGEBYSCORE', members, '-inf', text(now))
  if redis.call('ZCARD', members) == 0 then
    -- The last lease has expired. Keys expire by the millisecond and leases by the microsecond, so the marker may
    -- remain until the end of this millisecond, or longer (see is_paired). A marker without its set would look like
    -- the marker of another program.
    return join_free(lock, members, marker, token, expiry)
  end
  local mine = redis.call('ZSCORE', members, token)
  if mine then
    -- Never shortens.
    if tonumber(mine) < expiry then
      add_member(lock, members, token, expiry, now)
    end
    return 'MINE'
  end
  local limit = limit_of(kind)
  if not limit or redis.call('ZCARD', members) < limit then
    local first = front(queue, entries, now)
    if not first or first == token then
      add_member(lock, members, token, expiry, now)
      return 'FRESH'
    end
  end
  local first_out = redis.call('ZRANGE', members, 0, 0, 'WITHSCORES')
  local left = first_out[2] and math.ceil((tonumber(first_out[2]) - now) / 1000) or 0
  return 'BUSY', first_out[1] or held, left
end

