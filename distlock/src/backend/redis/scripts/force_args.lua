-- Deletes a lock whoever holds it, and serves the queue. (Behind clock.lua; members.lua, force.lua and
-- serve.lua follow.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   channel prefix  count  from (the last two as for leave)
-- Reply  {FREE}, {RELEASED, holder, 0}, or a WRONGTYPE error for a key that is not a string

local lock, queue, entries, counter, members = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channels, count = ARGV[1], ARGV[2] == '1'
local from = ARGV[3] or ''
local poll_gap, poll_gap_interval, handoffs_began = 0, 0, 0
local server_time = now()
local there = ''

