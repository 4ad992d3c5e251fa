-- Change this and save: the server restarts, and clients notice only the new text.
return "Hello"
