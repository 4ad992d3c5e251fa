-- An ltask service that responds to the requests of `skynet.call` with their arguments.

local S = {}

function S.lua(_, ...) return ... end

return S
