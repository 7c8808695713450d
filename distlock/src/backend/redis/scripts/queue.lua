-- Library: the queue, a list of tokens, and the hash of their entries (behind push.lua):
-- `<expires us> <claim ms> <fences> <w: the grant is pushed, or p: the waiter asks by itself> <kind: e, s, p:<limit>>`.
--
-- Push  `w <token> <lock>`   another client wants the lock, so its holder must not keep it after its section; or a
--                            writer waits, so no other reader may join the readers that hold it

-- Returns the first waiter in the queue that is alive. Removes dead entries in front of it.
local function front(queue, entries, now)
  local head = redis.call('LINDEX', queue, 0)
  while head do
    local entry = redis.call('HGET', entries, head)
    if entry and tonumber(string.match(entry, '^%d+') or 0) > now then
      break
    end
    redis.call('LPOP', queue)
    redis.call('HDEL', entries, head)
    head = redis.call('LINDEX', queue, 0)
  end
  return head
end

-- Returns whether the caller's token may be in the queue already.
local function may_be_queued(mode)
  return mode == 'held' or mode == 'heldpoll'
end

-- With this write, a waiter keeps its queue entry, and acquires a free lock, even if the server has no memory left. The
-- server checks the memory only at a script's first write, and this write needs none. So it must be the first.
local function keep_place(entries, queue_entry_ttl)
  redis.call('PEXPIRE', entries, 2 * queue_entry_ttl)
end

-- Adds the token to the queue, or renews its entry in its position. Removes dead entries in front of it, because only
-- the front polls. Returns 1 if the token is the front.
local function enqueue(queue, entries, token, now, queue_entry_ttl, claim, fences, mode, kind)
  local how = (mode == 'wait' or mode == 'held') and 'w' or 'p'
  local entry = text(now + queue_entry_ttl * 1000) .. ' ' .. claim .. ' ' .. fences .. ' ' .. how .. ' ' .. kind
  -- One of the two keys may have a value of another program. In this order, the script fails before it has written
  -- anything.
  if not redis.call('HGET', entries, token) or not redis.call('LINDEX', queue, 0) then
    if redis.call('RPUSH', queue, token) == 1 then
      -- The list may have been deleted, or evicted. An entry without a place would keep its waiter out of the new list.
      redis.call('DEL', entries)
    end
  end
  redis.call('HSET', entries, token, entry)
  redis.call('PEXPIRE', queue, 2 * queue_entry_ttl)
  redis.call('PEXPIRE', entries, 2 * queue_entry_ttl)
  return front(queue, entries, now) == token and 1 or 0
end

-- Puts the waiter back that was popped. Popping the last element has deleted the list, with its expiry.
local function put_back(queue, entries, waiter)
  if redis.call('LPUSH', queue, waiter) == 1 then
    redis.call('PEXPIRE', queue, math.max(1000, redis.call('PTTL', entries)))
  end
end

-- Removes the token from the queue. Returns whether it was there.
local function dequeue(queue, entries, token)
  if redis.call('HDEL', entries, token) == 0 then
    return false
  end
  redis.call('LREM', queue, 1, token)
  return true
end

-- If the number in a holder's token begins with 0, the holder may keep the lock after its section until it is notified
-- that another client wants it. A failed PUBLISH (no permission) only costs time, because the holder releases the lock
-- later anyway. channels: as for push; without it, no holder is notified.
local function tell_wanted(holder, lock, channels)
  local client = channels and string.match(holder, '^dl1:(.*):0%d+$')
  if client then
    push(channels, client, 'w ' .. holder .. ' ' .. lock)
  end
end

-- Notifies these readers, each with its expiry, that a writer waits behind them, so that they share their lock with no
-- other reader of their process. (Clients of the first release ignore it.)
local function tell_readers(readers, now, lock, channels)
  for i = 1, channels and #readers or 0, 2 do
    local reader = readers[i]
    local client = tonumber(readers[i + 1]) > now and string.match(reader, '^dl1:([^:]*):%d+$')
    if client then
      push(channels, client, 'w ' .. reader .. ' ' .. lock)
    end
  end
end

-- The token has acquired the lock. The waiters that are in the queue already have not notified it, so the script does.
local function tell_of_queue(queue, token, lock, channels)
  if channels and string.find(token, ':0%d+$') and redis.pcall('LLEN', queue) ~= 0 then
    tell_wanted(token, lock, channels)
  end
end

