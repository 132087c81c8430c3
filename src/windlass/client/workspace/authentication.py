"""Azure's authentication classes. They accept Azure's arguments, and store no secrets.

Windlass needs none of them: the private server of this machine is opened by a file that only its owner can read, a
shared one by WINDLASS_TOKEN. `get_authentication_header()` returns the header that opens the server's HTTP API.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable, Dict, Optional

from windlass.client.exceptions import AuthenticationException
from windlass.client.unsupported import not_provided

_AZURE = "A token for Azure's services"
_HEADER = "get_authentication_header() returns the header that opens the Windlass server."


class Audience(Enum):
    """Which of Azure's services a token is for."""

    ARM = "ARM"
    AZUREML = "AZUREML"
    arm = "ARM"
    aml = "AZUREML"


class AbstractAuthentication:
    """Base of all ways to sign in. None of them prompts for anything here.

    >>> workspace = Workspace.from_config(auth=InteractiveLoginAuthentication(tenant_id="contoso"))
    """

    def __init__(self, cloud: Optional[str] = None) -> None:
        self._cloud = cloud

    def get_authentication_header(self) -> Dict[str, str]:
        """The header that opens the API of the server that this process uses. It is a secret."""
        from windlass.client.http import embedded_server

        token = embedded_server.session().address.token
        if not token:
            raise AuthenticationException("There is no token for the server.", "Set WINDLASS_TOKEN to yours.")
        return {"Authorization": f"Bearer {token}"}

    @not_provided(_AZURE, _HEADER)
    def get_token(self, *scopes: str, **kwargs: Any) -> Any:
        """Return a token for Azure's services."""

    @not_provided(_AZURE, _HEADER)
    def signed_session(self, session: Any = None) -> Any:
        """Return a session that signs its requests to Azure's services."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InteractiveLoginAuthentication(AbstractAuthentication):
    """In Azure, signs in with a browser; no effect here."""

    def __init__(self, force: bool = False, tenant_id: Optional[str] = None, cloud: Optional[str] = None) -> None:
        super().__init__(cloud)


class AzureCliAuthentication(AbstractAuthentication):
    """In Azure, uses the login of its command line; no effect here."""

    def __init__(self, cloud: Optional[str] = None) -> None:
        super().__init__(cloud)


class MsiAuthentication(AbstractAuthentication):
    """In Azure, uses the identity of a machine; no effect here."""

    def __init__(self, cloud: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(cloud)


class ServicePrincipalAuthentication(AbstractAuthentication):
    """In Azure, signs in a program with its password, which is not stored here."""

    def __init__(
        self,
        tenant_id: str,
        service_principal_id: str,
        service_principal_password: str,
        cloud: str = "AzureCloud",
        _enable_caching: bool = True,
    ) -> None:
        super().__init__(cloud)


class ArmTokenAuthentication(AbstractAuthentication):
    """In Azure, uses a given token, which is not stored here."""

    def __init__(self, arm_access_token: str, cloud: Optional[str] = "None") -> None:
        super().__init__(cloud)

    def update_arm_access_token(self, new_arm_access_token: str) -> None:
        """Take another token, which is not kept either."""


class AzureMLTokenAuthentication(AbstractAuthentication):
    """In Azure, uses the token of the script's run, which is not stored here."""

    EXPIRATION_THRESHOLD_IN_SECONDS = 95
    REFRESH_INTERVAL_IN_SECONDS = 30

    def __init__(
        self,
        azureml_access_token: str,
        expiry_time: Any = None,
        host: Optional[str] = None,
        subscription_id: Optional[str] = None,
        resource_group_name: Optional[str] = None,
        workspace_name: Optional[str] = None,
        experiment_name: Optional[str] = None,
        run_id: Optional[str] = None,
        user_email: Optional[str] = None,
        experiment_id: Optional[str] = None,
        cloud: str = "AzureCloud",
    ) -> None:
        super().__init__(cloud)
        self._expiry_time = expiry_time

    @classmethod
    def create(
        cls,
        azureml_access_token: str,
        expiry_time: Any,
        host: str,
        subscription_id: str,
        resource_group_name: str,
        workspace_name: str,
        experiment_name: str,
        run_id: str,
        user_email: Optional[str] = None,
        experiment_id: Optional[str] = None,
    ) -> AzureMLTokenAuthentication:
        return cls(azureml_access_token, expiry_time)

    @property
    @not_provided(_AZURE, _HEADER)
    def token(self) -> Any:
        """The token that was given."""

    @property
    def expiry_time(self) -> Any:
        """When the token that was given is no longer valid in Azure."""
        return self._expiry_time

    def set_token(self, token: str, expiry_time: Any) -> None:
        """Take another token, which is not kept either."""
        self._expiry_time = expiry_time


class TokenAuthentication(AbstractAuthentication):
    """Gets tokens from a function of the caller; `get_token()` calls it."""

    def __init__(self, get_token_for_audience: Callable[[Any], str], cloud: Optional[str] = None) -> None:
        super().__init__(cloud)
        self._get_token_for_audience = get_token_for_audience

    def get_token(self, audience: Any = Audience.ARM) -> str:  # type: ignore[override]
        """The token that the caller's function returns for an audience."""
        return self._get_token_for_audience(audience)
