-- Makes a shared or limited lease last at least ttl from now. Never creates, never shortens. (Behind clock.lua;
-- members.lua and renew_n.lua follow.)
--
-- KEYS   lock  members
-- ARGV   token  ttl ms
-- Reply  {RENEWED, token, server_time}
--        {NOT_YOURS, token}

local lock, members = KEYS[1], KEYS[2]
local token, ttl = ARGV[1], tonumber(ARGV[2])
local server_time = now()

