"""A server under load: many clients use every tool while clients are killed and replaced, or the server is killed.

Each client is a process with its own folder and session, and shares some files with the others. Before it sends
a call it records it; the successor of a killed client sends the last call again, with the same id.
So every change is known to be acknowledged or not, and the files and the journal must agree with that.
"""
