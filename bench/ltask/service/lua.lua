-- A service of the scheduler's own that answers requests of skynet's words with what it was sent.

local S = {}

function S.lua(_, ...) return ... end

return S
