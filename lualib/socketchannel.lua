-- `require "socketchannel"`: the same as `require "skynet.socketchannel"`, under the name of older programs.

return require "skynet.socketchannel"
