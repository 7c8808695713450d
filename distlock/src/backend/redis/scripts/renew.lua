-- Makes an exclusive lease last at least ttl from now. Never creates, never shortens.
-- (Behind clock.lua and replica.lua.)
-- It uses only one key, so it also works, with ASK, while a cluster moves the slot.
--
-- KEYS   lock
-- ARGV   token  ttl ms
-- Reply  {RENEWED, token, server_time}
--        {NOT_YOURS, token}

local lock, token, ttl = KEYS[1], ARGV[1], ARGV[2]
if redis.pcall('GET', lock) ~= token then
  return refused_by_replica(lock) or {'NOT_YOURS', token}
end
if redis.call('PTTL', lock) < tonumber(ttl) then
  redis.call('PEXPIRE', lock, ttl)
end
return {'RENEWED', token, text(server_time())}
