-- Acquires exclusive locks in order, and stops at the first that is not free. Does not queue. Idempotent by the tokens.
-- (Behind clock.lua, push.lua and queue.lua.)
--
-- KEYS   the locks, in order
-- ARGV   ttl ms  channel prefix (as for enter)  then a token for each lock
-- Reply  the reply of enter in mode `try` for each lock, up to and including the first that is not acquired

local ttl, channels, now = ARGV[1], ARGV[2], text(server_time())
local replies = {}

for i, lock in ipairs(KEYS) do
  local token = ARGV[i + 2]
  if redis.call('SET', lock, token, 'NX', 'PX', ttl) then
    replies[i] = {'FRESH', token, now}
  else
    local holder = redis.pcall('GET', lock)
    if type(holder) == 'table' then
      if not string.find(holder.err, 'WRONGTYPE', 1, true) then
        return holder
      end
      replies[i] = {'WRONGTYPE', token, now}
      return replies
    end
    if holder ~= token then
      if holder and string.sub(holder, 1, 6) == 'dl1:p:' then
        replies[i] = {'WRONGKIND', token, now, holder}
      else
        tell_wanted(holder or '', lock, channels)
        replies[i] = {'BUSY', token, now, holder or '', redis.call('PTTL', lock), 0}
      end
      return replies
    end
    -- Never shortens.
    if redis.call('PTTL', lock) < tonumber(ttl) then
      redis.call('PEXPIRE', lock, ttl)
    end
    replies[i] = {'MINE', token, now}
  end
end
return replies
