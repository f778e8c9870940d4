"""Refusals of a hub: a status, a code, and a sentence for a person."""

from typing import Any

from starlette.responses import JSONResponse

RETRY_AFTER_SECONDS = 1


class HubHTTPError(Exception):
    """`facts` are further members of the answer."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after, self.facts = status, code, message, retry_after, facts

    def to_response(self) -> JSONResponse:
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse({"error": self.code, "message": self.message, **self.facts}, self.status, headers)


def busy() -> HubHTTPError:
    """For a tenant that has its share already. Others are served."""
    return HubHTTPError(503, "BUSY", "too much of this tenant is under way; try again", RETRY_AFTER_SECONDS)


def not_found() -> HubHTTPError:
    """The same answer for what does not exist and for what belongs to somebody else."""
    return HubHTTPError(404, "NOT_FOUND", "there is no such thing here")


def unauthorized() -> HubHTTPError:
    return HubHTTPError(401, "UNAUTHORIZED", "a valid bearer token is needed")
