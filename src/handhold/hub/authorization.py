"""Whose request it is: by its bearer token, and counted for its tenant's connections."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from handhold.core.ports.record_store import ChainId
from handhold.http_listener.listener import assign_client
from handhold.hub.access import Access, Role, TokenStore
from handhold.hub.access_cache import AccessCache
from handhold.hub.http_errors import HubHTTPError, busy, unauthorized


class TokenAuthorizer:
    def __init__(self, tokens: TokenStore) -> None:
        self._access = AccessCache(tokens)

    async def authorize(self, request: Request, *roles: Role) -> Access:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        access, token = None, token.strip()
        if scheme.lower() == "bearer" and token:
            access = self._access.peek(token) or await run_in_threadpool(self._access.find, token)
        if access is None:
            raise unauthorized()
        request.state.access = access
        if not assign_client(request.scope.get("state", {}), access.client):
            raise busy()
        if access.role not in roles:
            raise HubHTTPError(403, "FORBIDDEN", f"this needs a token with the role {' or '.join(roles)}")
        return access

    async def authorize_chain(self, request: Request) -> ChainId:
        """The chain of an agent's token."""
        access = await self.authorize(request, "agent")
        assert access.workspace is not None  # the database has no other agents
        return ChainId(access.tenant, access.workspace)
