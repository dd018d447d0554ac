"""The dashboard: pages in a browser over the API of a controller.

Belongs here: sessions of browsers, the checks of their requests, views that only pages need, the listener on the
loopback interface, and the pages themselves (`assets`: HTML, CSS and ES modules without a build step). Does not belong
here: queries and actions, which `server.service` and `server.actions` offer to all clients.
"""
