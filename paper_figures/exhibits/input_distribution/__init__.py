"""What the values of the inputs do to the rate of a GEMM, through the power that they take."""

from paper_figures.shown.exhibit import Exhibit, RowColumn

EXHIBIT = Exhibit(
    id="input_distribution",
    where="Beyond the paper",
    title="GEMM on other inputs",
    summary=(
        "The same bf16 product of 8192 by 8192 matrices on four kinds of inputs. The kernel does the same work on all "
        "of them, but values that switch fewer transistors take less power. A board at its power cap then runs at a "
        "higher clock. All other exhibits use normal inputs. Rates are of the rounds, where contestants take turns "
        "with a flush of the L2 before each call. The settled latency, clock, power and energy are of the contestant "
        "alone, call after call, after a second of it."
    ),
    order=990,
    problem_label="{distribution}",
    axis="Inputs, at M = N = K = 8192",
    tick="{distribution}",
    small_problems=tuple(
        {"M": 130, "N": 72, "K": 136, "distribution": kind} for kind in ("normal", "uniform", "sparse24", "zeros")
    ),
    baseline="cublas",
    columns=(
        RowColumn("Settled latency us", "settled_latency_us"),
        RowColumn("Settled SM clock MHz", "settled_clock_mhz"),
        RowColumn("Settled power W", "settled_power_w"),
        RowColumn("Energy a call mJ", "settled_energy_mj"),
    ),
)
