-- `require "bee.socket"`: lio.socket under bee's name. Every call keeps bee's results; lio adds a short
-- error code as a third one.
return require "lio.socket"
