-- Shared part: coming in without queueing. Takes, when called: lock, queue, entries, members, token, ttl, kind,
-- marker, server_time; and what front.lua and members.lua define.
-- Returns one of: FRESH; MINE; WRONGTYPE; WRONGKIND, marker or holder; BUSY, a holder, ms until somebody may be
-- out; ERROR, error reply.

local function enter()
  local held = redis.pcall('GET', lock)
  if type(held) == 'table' then
    if string.find(held.err, 'WRONGTYPE', 1, true) then
      return 'WRONGTYPE'
    end
    return 'ERROR', held
  end

  local expiry = server_time + ttl * 1000
  if not held then
    admit(marker, true, token, expiry)
    return 'FRESH'
  end

  if held == marker then
    if not is_paired() then
      return 'WRONGKIND', held
    end
    redis.call('ZREMRANGEBYSCORE', members, '-inf', text(server_time))
    local mine = redis.call('ZSCORE', members, token)
    if mine then
      -- Never shortens.
      if tonumber(mine) < expiry then
        admit(marker, false, token, expiry)
      end
      return 'MINE'
    end
    local limit = kind ~= 's' and tonumber(string.sub(kind, 3))
    if not limit or redis.call('ZCARD', members) < limit then
      local first = front()
      if not first or first == token then
        admit(marker, false, token, expiry)
        return 'FRESH'
      end
    end
    local first_out = redis.call('ZRANGE', members, 0, 0, 'WITHSCORES')
    local left = first_out[2] and math.ceil((tonumber(first_out[2]) - server_time) / 1000) or 0
    return 'BUSY', first_out[1] or held, left
  end

  -- A plain token may be another language's: only one of ours is known to be of another kind.
  local ours = string.sub(held, 1, 4) == 'dl1:' and held ~= 'dl1:hold'
  if is_marker(held) or (kind ~= 's' and ours) then
    return 'WRONGKIND', held
  end
  return 'BUSY', held, redis.call('PTTL', lock)
end

