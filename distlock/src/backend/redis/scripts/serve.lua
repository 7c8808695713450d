-- Library: grants a lock to the waiters at the front of the queue that are compatible with its holders: to one
-- exclusive waiter, to all readers at the front, or to as many as the limit allows. (Behind clock.lua, push.lua,
-- gap.lua, queue.lua and members.lua.)
--
-- The push comes before SET, so SET must succeed after a push. A server without enough memory, replicas or disk refuses
-- only the first write of a script. So the script must have written before this part begins, with a command that needs
-- no memory: LPOP in leave, DEL in force. The set of holders is written before the push, because the user may lack the
-- permissions for it, which only shared and limited locks need.
--
-- Pushes  `g <us>[@<from>] <handoffs_began> <first fence or 0> <token> <lock>`   the lock is granted for your claim
--         `p <token> <lock>`                     the lock is left free; you are the front, ask after the gap

-- Returns whether a waiter of this kind is compatible with the lock's value: its holders' marker, or '' for none.
local function has_room(members, held, kind)
  if held == '' then
    return true
  end
  if kind == 's' or kind == 'e' then
    return kind == 's' and held == 'dl1:s'
  end
  local count = redis.pcall('ZCARD', members)
  return held == 'dl1:' .. kind and type(count) == 'number' and count < limit_of(kind)
end

-- keys: lock, queue, entries, counter, members
-- run:  now; held: the lock's value, '' if the lock has no holder; ends: of holders in a set, when the last lease ends;
--       waiter: popped from the queue, or nothing;
--       handoffs_began: when the run of hand-offs began, 0: now; poll_gap, poll_gap_interval: as for leave;
--       channels: as for push; count: PUBLISH counts every subscriber; from: `@<from>`, or ''
-- Returns whether the lock was left free for plain pollers; with the interval 0, whether it was granted.
local function serve(keys, run)
  local lock, entries, members = keys.lock, keys.entries, keys.members
  local now, held, ends, waiter = run.now, run.held, run.ends or 0, run.waiter
  local handoffs_began = run.handoffs_began == 0 and now or run.handoffs_began
  local granted_at = text(now) .. run.from
  local gap_is_now = gap_is_due(run.poll_gap, run.poll_gap_interval, handoffs_began, now)

  -- Returns whether the waiter may have received it. A waiter must not lose its grant because PUBLISH fails (no
  -- permission). Its own heartbeat finds the grant.
  local function publish(message)
    local client = string.match(waiter, '^dl1:(.*):%d+$') or ''
    return push(run.channels, client, message) ~= 0 or not run.count
  end

  local function push_grant(fence)
    return publish('g ' .. granted_at .. ' ' .. text(handoffs_began) .. ' ' .. fence .. ' ' .. waiter .. ' ' .. lock)
  end

  local function push_grant_with(fences)
    if fences == '0' then
      return push_grant('0')
    end
    return push_grant(text(reserve_fences(keys.counter, tonumber(fences), now)))
  end

  -- Returns by how many holders the set grows, or nil if the user lacks a permission. If a late command of this waiter
  -- has acquired the lock already, the set does not grow, and that lease must not get shorter.
  local function add_to_set(lease_end)
    if held == '' then
      return not make_set(members, waiter, lease_end) and 1 or nil
    end
    local added = redis.pcall('ZADD', members, 'GT', text(lease_end), waiter)
    return type(added) == 'number' and added or nil
  end

  while waiter do
    local entry = redis.call('HGET', entries, waiter)
    local expiry, claim, fences, how, kind = string.match(entry or '', '^(%d+) (%d+) (%d+) (%a) (%S+)$')
    local alive = expiry and tonumber(expiry) > now
    local lease_end = alive and not gap_is_now and kind ~= 'e' and now + tonumber(claim) * 1000
    local fits = alive and has_room(members, held, kind)
    local added = fits and lease_end and add_to_set(lease_end)
    if alive and (not fits or lease_end and not added) then
      -- Without the permissions for the set, this user leaves the lock to the waiter, which acquires it when it asks.
      put_back(keys.queue, entries, waiter)
      break
    end
    if alive and gap_is_now and run.poll_gap_interval == 0 then
      -- A member of a quorum: the releaser learns that there was a waiter. A waiter that polls would not learn of the
      -- grant, so it is skipped.
      if how ~= 'p' and push_grant('0') then
        redis.call('HDEL', entries, waiter)
        redis.call('SET', lock, waiter, 'PX', claim)
        return true
      end
    elseif alive and gap_is_now then
      if how == 'p' or publish('p ' .. waiter .. ' ' .. lock) then
        put_back(keys.queue, entries, waiter)
        redis.call('DEL', lock)
        return true
      end
    elseif alive and (how == 'p' or push_grant_with(fences)) then
      -- A waiter that polls gets its fencing token when it asks.
      if kind == 'e' then
        redis.call('HDEL', entries, waiter)
        redis.call('SET', lock, waiter, 'PX', claim)
        return false
      end
      if lease_end > ends then
        if held ~= '' then
          redis.call('PEXPIREAT', members, text(math.ceil(lease_end / 1000) + 500))
        end
        mark(lock, 'dl1:' .. kind, lease_end)
        ends = lease_end
      end
      held = 'dl1:' .. kind
    elseif added == 1 then
      redis.pcall('ZREM', members, waiter)
    end
    redis.call('HDEL', entries, waiter)
    waiter = redis.call('LPOP', keys.queue)
  end

  if held == '' then
    redis.call('DEL', lock)
  end
  return false
end

