"""The page: panels, views and services over the decoding core."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported anywhere: nothing leaves this machine
