-- Makes a lease last at least ttl from now. Never creates, never shortens. (Behind clock.lua;
-- members.lua and renew.lua follow.)
--
-- KEYS   lock  entries  members
-- ARGV   token  ttl ms
-- Reply  {RENEWED, token, us}
--        {NOT_YOURS, token}

local lock, members = KEYS[1], KEYS[3]
local token, ttl = ARGV[1], tonumber(ARGV[2])
local us = now()

