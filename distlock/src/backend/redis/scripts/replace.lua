-- Replaces the given holder of an exclusive lock. The key is never free in between, and the queue does not change.
-- Idempotent by token. (Behind clock.lua and replica.lua.)
--
-- KEYS   lock  fence counter
-- ARGV   token  ttl ms  fences (0: unfenced)  holder
-- Reply  {FRESH, token, server_time [, first fence]}   the lock was the holder's and is ours
--        {MINE, token, server_time [, first fence]}    the lock was ours; its lease is at least ttl now
--        {NOT_YOURS, token}                            the lock is free, or another token holds it; nothing was changed

local lock, counter = KEYS[1], KEYS[2]
local token, ttl, fences, replaced = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holder = redis.pcall('GET', lock)
local status
if holder == token then
  status = 'MINE'
  if redis.call('PTTL', lock) < tonumber(ttl) then
    redis.call('PEXPIRE', lock, ttl)
  end
elseif holder == replaced then
  status = 'FRESH'
  redis.call('SET', lock, token, 'PX', ttl)
else
  return refused_by_replica(lock) or {'NOT_YOURS', token}
end
local now = server_time()
if fences ~= '0' then
  return {status, token, text(now), text(reserve_fences(counter, tonumber(fences), now))}
end
return {status, token, text(now)}
