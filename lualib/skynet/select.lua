-- `require "skynet.select"`: the function `skynet.select`.

return require "skynet.request".select
