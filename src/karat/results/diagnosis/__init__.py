"""What the numbers mean and what to try: rules that fire only when their evidence is beyond noise."""
