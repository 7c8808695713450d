-- The same as enter.lua for shared and limited locks. (Behind clock.lua; front.lua, queue.lua, members.lua and
-- enter_n_admit.lua stand before the end.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  ttl ms  claim ms  queue_entry_ttl ms  0  mode  kind
--        mode: as for enter
--        kind: s (shared), p:<limit>
-- Reply  {FRESH, token, server_time}, {MINE, token, server_time}, {WRONGTYPE, token, server_time} as for enter
--        {BUSY, token, server_time, a holder, ms until somebody may be out, 1 if we are the front}
--        {WRONGKIND, token, server_time, marker or holder}   the key is a lock of another kind; or, if it is our own marker,
--                                                   it was set by managers with another key prefix
--
-- A free lock is taken by whoever asks. One that is held by the same kind is entered only by the front of the
-- queue, or by anybody if there is none: a writer that waits lets no later reader pass.

local lock, queue, entries, members = KEYS[1], KEYS[2], KEYS[3], KEYS[5]
local token, ttl, mode, kind = ARGV[1], tonumber(ARGV[2]), ARGV[6], ARGV[7]
local server_time = now()
local marker = 'dl1:' .. kind

if mode == 'held' or mode == 'heldpoll' then
  -- Whoever is queued keeps the place, and gets a lock that is free, even where there is no memory for more: that
  -- is checked at a script's first write only, and this one needs none.
  redis.call('PEXPIRE', entries, 2 * tonumber(ARGV[4]))
end
