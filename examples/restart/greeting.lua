-- Change this and save: the server restarts, and nobody notices but for the text.
return "Hello"
