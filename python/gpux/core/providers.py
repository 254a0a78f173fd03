"""GPUX's names of the providers."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from gpux import machine
from gpux.errors import ProviderUnavailable

if TYPE_CHECKING:
    from gpux._gpux import ProviderReport


class ExecutionProvider(Enum):
    """ONNX Runtime's providers that GPUX knows. The values are ONNX Runtime's names."""

    TENSORRT = "TensorrtExecutionProvider"
    CUDA = "CUDAExecutionProvider"
    ROCM = "ROCMExecutionProvider"
    COREML = "CoreMLExecutionProvider"
    DIRECTML = "DmlExecutionProvider"
    OPENVINO = "OpenVINOExecutionProvider"
    CPU = "CPUExecutionProvider"

    @property
    def id(self) -> str:
        """gpux's name: "cuda". ROCm's provider is replaced by MIGraphX."""
        return "migraphx" if self is ExecutionProvider.ROCM else self.name.lower()


def id_of(provider: ExecutionProvider | str | None) -> str:
    """A provider as gpux takes it. GPUX's names of providers are accepted, None is "auto"."""
    if provider is None:
        return "auto"
    if isinstance(provider, ExecutionProvider):
        return provider.id
    for known in ExecutionProvider:
        if provider in (known.value, known.name):
            return known.id
    return {"trt": "tensorrt", "dml": "directml", "rocm": "migraphx"}.get(provider.lower(), provider)


class ProviderManager:
    """Which providers this machine can use. `gpux.providers()` reports more."""

    def get_best_provider(self, preferred: str | ExecutionProvider | None = None) -> ExecutionProvider:
        """The first provider that a model would use.

        Raises:
            gpux.Usage (an unknown name), gpux.ProviderUnavailable where gpux selects a provider that GPUX does not
            know: use gpux.select_providers().
        """
        for selected in machine.select_providers(id_of(preferred)):
            for known in ExecutionProvider:
                if known.id == selected:
                    return known
        raise ProviderUnavailable("the selected provider is not one of GPUX's: use gpux.select_providers()")

    def get_available_providers(self) -> list[str]:
        """ONNX Runtime's names of the providers that this machine can use."""
        return [report.ort_name for report in machine.providers() if report.available]

    def get_provider_config(self, provider: ExecutionProvider | str) -> dict[str, Any]:
        """Options that gpux passes without being told to: none. Runtime(options={"cuda": {…}}) sets them."""
        self._report(provider)
        return {}

    def get_provider_info(self, provider: ExecutionProvider | str) -> dict[str, Any]:
        """Name, available, config, platform and description, and why a provider is not available."""
        report = self._report(provider)
        return {
            "name": report.ort_name,
            "available": report.available,
            "config": {},
            "platform": ", ".join(report.systems),
            "description": report.description,
            "reason": report.reason,
            "remedy": report.remedy,
        }

    def _report(self, provider: ExecutionProvider | str) -> ProviderReport:
        wanted = id_of(provider)
        for report in machine.providers():
            if wanted == report.id or wanted in report.aliases:
                return report
        # It is unknown: the library's error lists those that are not.
        machine.select_providers(wanted)
        raise ProviderUnavailable(f"there is no single provider '{wanted}'")


__all__ = ["ExecutionProvider", "ProviderManager"]
