-- Shared part: lets in as many from the front of the queue as are compatible with who is in: one exclusive, or
-- all readers at the front, or as many as the limit allows. Last part of leave.lua and force.lua; takes from
-- them: lock, queue, entries, counter, members, token, server_time, reply, there, waiter (popped from the queue),
-- channels, count, poll_gap, poll_gap_interval, handoffs_began, from; and what members.lua defines.
--
-- Whoever is told that the lock is his must then get it: PUBLISH comes before SET. A server that refuses writes for
-- want of memory, replicas or disk does so at a script's first write only, so there must have been one before
-- this part begins, and one that may not be refused for memory: LPOP in leave, DEL in force.
--
-- Pushes  `g <us>[@<from>] <since> <first fence or 0> <token> <lock>`   the lock is yours for your claim time
--         `p <token> <lock>`                                   it is left free; you are first, ask after the gap

if handoffs_began == 0 then
  handoffs_began = server_time
end
if from ~= '' then
  from = '@' .. from
end
-- One gap in each `poll_gap_interval` of the clock, at a place that is as good as random: at any regular distance gaps would
-- miss for ever who polls in a related one. (The multiples of the golden section, with a growing step.)
local function gap_at(number)
  local n = number % 65536
  return (number + n * 0.6180339887498949 * (1 + n / 1000) % 1) * poll_gap_interval
end

local pause = poll_gap > 0
if pause and poll_gap_interval > 0 then
  local number = math.floor(server_time / poll_gap_interval)
  local latest = gap_at(number)
  if latest > server_time then
    latest = gap_at(number - 1)
  end
  -- Only what has gone on since before it is interrupted.
  pause = handoffs_began < latest
end

-- Whether somebody listened, as far as one can know. A failed PUBLISH (no permission) must not cost a waiter
-- its place: it finds out by its own heartbeat.
local function publish(message)
  local client = string.match(waiter, '^dl1:(.*):%d+$') or ''
  return redis.pcall('PUBLISH', channels .. client, message) ~= 0 or not count
end

local function has_room(kind)
  if there == '' then
    return true
  end
  if kind == 's' or kind == 'e' then
    return kind == 's' and there == 'dl1:s'
  end
  return there == 'dl1:' .. kind and redis.call('ZCARD', members) < tonumber(string.sub(kind, 3))
end

while waiter do
  local entry = redis.call('HGET', entries, waiter)
  local expiry, claim, fences, how, kind = string.match(entry or '', '^(%d+) (%d+) (%d+) (%a) (%S+)$')
  local alive = expiry and tonumber(expiry) > server_time
  if alive and not has_room(kind) then
    redis.call('LPUSH', queue, waiter)
    break
  end
  if alive and pause and poll_gap_interval == 0 then
    -- One of several servers: whoever releases learns that somebody waited. Who polls would not hear of it, and
    -- is passed over.
    if how ~= 'p' and publish('g ' .. text(server_time) .. from .. ' ' .. text(handoffs_began) .. ' 0 ' .. waiter .. ' ' .. lock) then
      redis.call('HDEL', entries, waiter)
      redis.call('SET', lock, waiter, 'PX', claim)
      return {'RELEASED', token, 1}
    end
  elseif alive and pause then
    if how == 'p' or publish('p ' .. waiter .. ' ' .. lock) then
      redis.call('LPUSH', queue, waiter)
      redis.call('DEL', lock)
      return {'RELEASED', token, 1}
    end
  elseif alive then
    -- Who polls gets its fence when it asks.
    local heard = how == 'p'
    if not heard then
      local fence = '0'
      if fences ~= '0' then
        fence = text(mint(counter, tonumber(fences), server_time))
      end
      heard = publish('g ' .. text(server_time) .. from .. ' ' .. text(handoffs_began) .. ' ' .. fence .. ' ' .. waiter .. ' ' .. lock)
    end
    if heard and kind == 'e' then
      redis.call('HDEL', entries, waiter)
      redis.call('SET', lock, waiter, 'PX', claim)
      return reply
    end
    if heard then
      admit('dl1:' .. kind, there == '', waiter, server_time + tonumber(claim) * 1000)
      there = 'dl1:' .. kind
    end
  end
  redis.call('HDEL', entries, waiter)
  waiter = redis.call('LPOP', queue)
end

if there == '' then
  redis.call('DEL', lock)
end
return reply
