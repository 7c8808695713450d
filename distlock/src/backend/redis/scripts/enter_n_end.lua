-- Last part of enter_n.lua, behind front.lua, queue.lua and members.lua.

local held = redis.pcall('GET', lock)
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return {'WRONGTYPE', token, text(us)}
  end
  return held
end

local function entered(status)
  if (mode == 'held' or mode == 'heldpoll') and redis.call('HDEL', entries, token) == 1 then
    redis.call('LREM', queue, 1, token)
  end
  return {status, token, text(us)}
end

local expiry = us + ttl * 1000
if not held then
  admit(marker, true, token, expiry)
  return entered('FRESH')
end

local left
if held == marker then
  redis.call('ZREMRANGEBYSCORE', members, '-inf', text(us))
  local mine = redis.call('ZSCORE', members, token)
  if mine then
    -- Never shortens.
    if tonumber(mine) < expiry then
      admit(marker, false, token, expiry)
    end
    return entered('MINE')
  end
  local limit = kind ~= 's' and tonumber(string.sub(kind, 3))
  if not limit or redis.call('ZCARD', members) < limit then
    local first = front()
    if not first or first == token then
      admit(marker, false, token, expiry)
      return entered('FRESH')
    end
  end
  local next_out = redis.call('ZRANGE', members, 0, 0, 'WITHSCORES')[2]
  left = next_out and math.ceil((tonumber(next_out) - us) / 1000) or 0
else
  -- A plain token may be another language's: only one of ours is known to be of another kind.
  local ours = string.sub(held, 1, 4) == 'dl1:' and held ~= 'dl1:hold'
  if is_marker(held) or (kind ~= 's' and ours) then
    return {'WRONGKIND', token, text(us), held}
  end
  left = redis.call('PTTL', lock)
end

local place = 0
if mode ~= 'try' then
  place = enqueue(kind)
end
return {'BUSY', token, text(us), held, left, place}
