-- Shared part: gives the lock to the first in the queue who is alive, or leaves it free. Last part of leave.lua
-- and force.lua; takes from them: lock, queue, entries, counter, token, waiter (popped from the queue),
-- channels, count, gap, every, since, from.
--
-- Pushes  `g <us>[@<from>] <since> <first fence or 0> <token> <lock>`   the lock is yours for your claim time
--         `p <token> <lock>`                                   it is left free; you are first, ask after the gap

local us = now()
if since == 0 then
  since = us
end
if from ~= '' then
  from = '@' .. from
end
local pause = gap > 0 and us - since >= every

-- Whether somebody listened, as far as one can know. A failed PUBLISH (no permission) must not cost a waiter
-- its place: it finds out by its own heartbeat.
local function publish(message)
  local client = string.match(waiter, '^dl1:(.*):%d+$') or ''
  return redis.pcall('PUBLISH', channels .. client, message) ~= 0 or not count
end

while waiter do
  local entry = redis.call('HGET', entries, waiter)
  local expiry, claim, fences, kind = string.match(entry or '', '^(%d+) (%d+) (%d+) (%a)$')
  if expiry and tonumber(expiry) > us then
    if pause then
      if kind == 'p' or publish('p ' .. waiter .. ' ' .. lock) then
        redis.call('LPUSH', queue, waiter)
        redis.call('DEL', lock)
        return {'RELEASED', token, 1}
      end
    else
      -- Who polls gets its fence when it asks.
      local heard = kind == 'p'
      if not heard then
        local fence = '0'
        if fences ~= '0' then
          fence = text(mint(counter, tonumber(fences), us))
        end
        heard = publish('g ' .. text(us) .. from .. ' ' .. text(since) .. ' ' .. fence .. ' ' .. waiter .. ' ' .. lock)
      end
      if heard then
        redis.call('HDEL', entries, waiter)
        redis.call('SET', lock, waiter, 'PX', claim)
        return {'RELEASED', token, 0}
      end
    end
  end
  redis.call('HDEL', entries, waiter)
  waiter = redis.call('LPOP', queue)
end

redis.call('DEL', lock)
return {'RELEASED', token, 0}
