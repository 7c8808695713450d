-- The same as enter_all.lua for shared locks. (Behind clock.lua; front.lua, members.lua and enter_n_admit.lua
-- stand before the end.)
--
-- KEYS   lock  queue  entries  members of each lock, in order
-- ARGV   ttl ms  kind  then a token for each lock
--        kind: as for enter_n
-- Reply  for each lock, up to and including the first that is not ours now, what enter_n replies in mode `try`

local lock, queue, entries, members, token
local ttl, kind, server_time = tonumber(ARGV[1]), ARGV[2], now()
local marker = 'dl1:' .. kind
